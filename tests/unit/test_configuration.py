import pytest

from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("epsilon", 0),
        ("epsilon", -1),
        ("epsilon", float("nan")),
        ("epsilon", float("inf")),
        ("delta", 0),
        ("delta", 1),
        ("delta", 1.5),
        ("max_tokens", 0),
        ("utility", "cosine"),
        ("accounting", "none"),
        ("groups", 0),
        ("strength", 0),
        ("copy_bias", -0.1),
        ("copy_bias", 10.1),
        ("copy_bias", float("nan")),
        ("adjacency", "swap"),
    ],
)
def test_a_bad_setting_is_one_line_that_names_it(setting, value):
    with pytest.raises(ConfigurationError, match=setting) as caught:
        PrivacyConfig.create(**{setting: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sampler", ["top_p", "top_k", "temperature", "repetition_penalty"])
def test_a_private_sampler_is_refused_with_the_remedy(sampler):
    with pytest.raises(ConfigurationError, match="public_top_k"):
        PrivacyConfig.create(**{sampler: 0.9})


def test_an_unknown_setting_is_refused():
    with pytest.raises(ConfigurationError, match="epsilonn"):
        PrivacyConfig.create(epsilonn=1.0)

"""Codecs: exact round trips, streams that never show half a character, special tokens."""

import json
import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from bedplate.data import ByteCodec, TokenizerCodec, load_codec
from bedplate.errors import CheckpointError

TEXTS = [
    "",
    "  two spaces first",
    "line\r\nline\ttab",
    "é e\u0301 Å ﬁ",
    "🙂👩‍👩‍👧 mixed ä with 中文",
    "<|end|> is text",
    "def f(x):\n    return x\n",
]


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["def f(x): return x " * 50, "the text of the end"], trainer)
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(params=["bytes", "tokenizer"])
def codec(request, tokenizer_file):
    return ByteCodec() if request.param == "bytes" else TokenizerCodec(tokenizer_file)


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip(codec, text):
    """B76"""
    ids = codec.encode(text)
    assert codec.decode(ids) == text
    assert (ids == []) == (text == "")


@pytest.mark.parametrize("text", TEXTS)
def test_streamed_pieces_join_to_the_whole(codec, text):
    """B76"""
    stream = codec.stream()
    pieces = [stream.push(token) for token in codec.encode(text)]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) + stream.finish() == text


def test_a_truncated_end_is_one_replacement_character(codec):
    """B76"""
    ids = codec.encode("🙂")[:-1]
    stream = codec.stream()
    assert "".join(stream.push(token) for token in ids) == ""
    assert stream.finish() == codec.decode(ids) == "\ufffd"


def test_any_bytes_stream_as_they_decode(codec):
    rng = random.Random(0)
    for _ in range(50):
        ids = [rng.randrange(1, 256) for _ in range(30)]
        stream = codec.stream()
        pieces = [stream.push(token) for token in ids]
        assert "".join(pieces) + stream.finish() == codec.decode(ids)


def test_a_lone_surrogate_is_refused(codec):
    """B76"""
    with pytest.raises(ValueError, match=r"character 2 of the text is a lone surrogate \(U\+D800"):
        codec.encode("ab\ud800")


def test_special_tokens_need_permission(tokenizer_file):
    """B76"""
    codec = TokenizerCodec(tokenizer_file)
    end = codec.encode("<|end|>", allow_special=True)
    assert len(end) == 1
    assert end[0] not in codec.encode("a<|end|>b")
    assert codec.decode([*codec.encode("a"), *end, *codec.encode("b")]) == "ab"


def test_a_damaged_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="tokenizer: cannot read"):
        TokenizerCodec(tmp_path)


def test_the_codec_of_a_checkpoint(tmp_path, tokenizer_file):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"vocab_size": 256, "eos_token_id": 0}))
    assert isinstance(load_codec(tmp_path), ByteCodec)
    config.write_text(json.dumps({"vocab_size": 500, "eos_token_id": [7, 8]}))
    with pytest.raises(CheckpointError, match=r"has no tokenizer\.json"):
        load_codec(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_file.read_bytes())
    assert load_codec(tmp_path).end_token_id == 7


def test_no_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"has no readable config\.json"):
        load_codec(tmp_path)

"""Data: text files, codecs between text and tokens, batches that can be resumed."""

from bedplate.data.batches import Batches, windows_in_order
from bedplate.data.codec import ByteCodec, StreamDecoder, TextCodec, TokenizerCodec, load_codec
from bedplate.data.corpus import Corpus, load_corpus, standard_library, text_files

__all__ = [
    "Batches",
    "ByteCodec",
    "Corpus",
    "StreamDecoder",
    "TextCodec",
    "TokenizerCodec",
    "load_codec",
    "load_corpus",
    "standard_library",
    "text_files",
    "windows_in_order",
]

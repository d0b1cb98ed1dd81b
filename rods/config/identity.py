"""The identity half: what a run is. Every section but `[operation]`.

Defaults are the paper's (004) where they are known; each field says its unit and range."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from rods.config.sections import CURRICULUM, STAGE, extended
from rods.model_roles import JudgeRole, ResultsRole, Role, RoleTables, WorldRole
from rods.observations import EpisodeReward
from rods.section import AtLeastOne, Count, NonNegative, Positive, Section, Share
from rods.tasks import TaskType


class Data(Section):
    """Which tasks a run starts with."""

    # `desk`, `desk-small`, `desk-regions`, `desk-regions-rare` (docs/nano.md), `desk-personas`,
    # `desk-personas-mute` (users are played), `bfcl`, a JSONL file, or `none`: all tasks are drawn
    tasks: str = "desk"
    train: Count = 0  # how many training tasks are taken from the front; 0: all
    held_out: Count = 0  # how many held-out tasks are taken; 0: all
    random_seed: int = 7  # of generated data (desk)


class RandomSeeds(Section):
    """Each kind of random choice has a seed of its own."""

    order: int = 0  # the order of tasks in an epoch, re-tests
    rollouts: int = 0  # sampling of the policy
    daemon: int = 0  # the author's generator, random selection
    drawn: int = 0  # tasks drawn for a step, and their levels
    policy: int = 0  # initial weights


class PolicySettings(Section):
    """What is trained. `nano` is built on the spot, `transformers` loads `model`, `simulated` has
    no weights, and `external` is what a program of your own trains (docs/api.md, `rods trainer
    observe`)."""

    kind: Literal["nano", "transformers", "simulated", "external"] = "nano"  # see above
    # kind=transformers: a folder with weights and tokenizer; external: its name
    model: str = ""
    # how calls are written: as its own chat template has it (the default of kind=transformers),
    # 000's form, Hermes/Qwen's, nano's
    dialect: Literal["native", "tags", "hermes", "compact"] = "compact"
    # dialect=native: the family whose form it is; "": found from the chat template
    family: str = ""
    # further variables of the chat template, for instance {enable_thinking = false}
    chat_template_kwargs: dict[str, bool | int | str] = Field(default_factory=dict)
    # trains matrices of this rank beside frozen weights (LoRA, needs peft); 0: all
    lora_rank: Count = 0
    lora_alpha: Count = 0  # LoRA's scale is this over the rank; 0: twice the rank
    # names of the modules that have LoRA's matrices, as peft takes them; empty: all linear layers
    lora_targets: list[str] = Field(default_factory=list)
    # kind=nano: share of flawed turns in the warm start's demonstrations
    carelessness: Share = 0.6
    # kind=nano: optimizer steps of supervised warm start; 0: the recipe's own
    warm_start_steps: Count = 0
    # kind=simulated: skill at the start; a task of this difficulty is resolved half the time
    skill: float = 0.3
    # kind=simulated: skill gained in a step whose groups all disagree
    growth: NonNegative = 0.002
    # kind=simulated: conversations of drawn tasks are really played; false: what they earn is drawn
    plays: bool = False

    @model_validator(mode="before")
    @classmethod
    def _own_form(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("kind") == "transformers":
            return {"dialect": "native", **fields}
        return fields

    @model_validator(mode="after")
    def _named(self) -> "PolicySettings":
        if self.dialect == "native" and self.kind != "transformers":
            raise ValueError(
                'dialect = "native" is that of a chat template: it needs kind = "transformers"'
            )
        if self.kind == "transformers" and not self.model:
            raise ValueError(
                'kind = "transformers" needs `model`, a folder with weights and tokenizer'
            )
        return self


class Rollouts(Section):
    # 004 Appendix J; 1 needs the batch as baseline and zones.probe = "window"
    rollouts_per_task: AtLeastOne = 16
    temperature: Positive = 1.0  # of sampling in training
    top_p: float = Field(1.0, gt=0, le=1)  # nucleus of sampling in training
    # most rounds in which a step rolls out other tasks in place of groups with equal rewards (DAPO,
    # arXiv 2503.14476); 0: none
    refill: Count = 0
    # 1: the rollout server plays the next batch while the weights are updated; `rods-train` alone
    ahead: int = Field(0, ge=0, le=1)
    max_steps: AtLeastOne = 20  # replies a turn (BFCL's limit)
    max_reply_tokens: AtLeastOne = 512  # longer replies end the episode as cut (`length`)
    # prompt and answers of an episode (002: 8,192 + 4,096)
    max_context_tokens: int = Field(12_288, ge=16)


class Training(Section):
    """GRPO. Learning rate 1e-6 (002), KL 0.1 and clip 0.2/0.28 (000) are for billions of
    parameters."""

    batch_tasks: AtLeastOne = 32  # tasks a step
    # the run ends after this many rollout batches (004 Appendix N)
    steps: int = Field(600, ge=1, le=10**9)
    learning_rate: Positive = 1e-6  # of the optimizer; about 0.01 with muon
    # what it does until training.steps: stays, or falls to 0 in a line or half a cosine
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warm_up_steps: Count = 0  # steps in which the learning rate rises first
    # muon: torch.optim.Muon for matrices, AdamW for the rest
    optimizer: Literal["adamw", "muon"] = "adamw"
    kl: NonNegative = 0.1  # weight of the KL penalty against the starting policy; 0: none
    passes: AtLeastOne = 1  # optimizer passes over each rollout batch
    # from the second pass on, new to old probabilities are clipped at 1 − this
    clip_low: Positive = 0.2
    clip_high: Positive = 0.28  # and at 1 + this
    # mean over all tokens of the batch (DAPO), or over rollouts of their means (GRPO as published)
    loss: Literal["token", "rollout"] = "token"
    # a reward is compared with the mean of its group (GRPO), of the rest of it (RLOO), or of the
    # batch (003)
    advantage_baseline: Literal["group", "leave_one_out", "batch"] = "group"
    # what it is divided by: a standard deviation, or nothing (Dr. GRPO)
    advantage_scale: Literal["group", "batch", "none"] = "group"
    # loss of vLLM rollouts, weighted by probabilities here over those of vLLM
    engine_correction: Literal[
        "none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"
    ] = "token_truncate"
    # ratios above it count as it (truncate) or as 0 (mask)
    engine_correction_max: Positive = 2.0
    # package.module:function that reweights advantages (trainer/advantages.py); empty: none
    advantage_hook: str = ""
    checkpoint_steps: AtLeastOne = 50  # steps between checkpoints
    deterministic: bool = False  # torch's deterministic mode, one thread
    # sampled rollouts per held-out task when the run is scored
    heldout_rollouts: AtLeastOne = 1

    def rate_share(self, step: int) -> float:
        """The share of the learning rate that holds in a step (from 1)."""
        rising = self.warm_up_steps
        done = max(0.0, (step - 1 - rising) / max(1, self.steps - rising))
        falling = {
            "constant": 1.0,
            "linear": 1 - done,
            "cosine": (1 + math.cos(math.pi * done)) / 2,
        }
        return min(1.0, step / (rising + 1)) * falling[self.schedule]


@partial(extended, name="Stage", door=STAGE)
class Stage(Section):
    """One stage of the curriculum (004 §4)."""

    # which tasks are trained on
    types: tuple[TaskType, ...] = ("base", "long_context", "miss_func", "miss_param")
    # what is trained on (rods/episode/rewards.py); format, format_codes: stage 1's
    reward: EpisodeReward = "progress"
    # which system prompt of the tags dialect (000 Appendix G)
    prompt: Literal["plain", "resourceful"] = "plain"
    # what the policy is shown: seal-active, seal-full (002 §3.3), or package.module:factory
    # (rods/interfaces); empty: all as it is; never in evaluation
    interface: str = ""
    expand: bool = True  # selection, injection and retirement run only where true
    # its end: epochs, or a plateau of the validation score with stable gradient norms (000 Remark
    # 3.1)
    until: Literal["epochs", "plateau"] = "epochs"
    # until=epochs: how many, 0: until the run ends; until=plateau: at most, 0: no limit
    epochs: Count = 0

    if TYPE_CHECKING:  # keys that extensions bring

        def __init__(self, **keys: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


@partial(extended, name="Curriculum", door=CURRICULUM)
class Curriculum(Section):
    """The stages, and what ends them."""

    stages: tuple[Stage, ...] = (Stage(),)
    # a plateau: mean validation progress stays closer than this to what it was before (004 §4)
    plateau: NonNegative = 0.01
    # for so many epochs in a row: one that learns slowly, or a chance of one validation, is none
    plateau_epochs: AtLeastOne = 3
    # epochs of a stage before a plateau may end it: its tasks and reward are new to the policy
    plateau_after: AtLeastOne = 5
    # gradient norms of an epoch are stable up to this std ÷ mean
    gradient_variation: NonNegative = 0.5

    @model_validator(mode="after")
    def _ends(self) -> "Curriculum":
        if not self.stages:
            raise ValueError("a curriculum needs at least one stage")
        for number, stage in enumerate(self.stages[:-1], start=1):
            if stage.epochs == 0 and stage.until == "epochs":
                raise ValueError(
                    f"stage {number} never ends (epochs = 0), so the stages after it are never "
                    f"reached"
                )
        return self

    if TYPE_CHECKING:  # keys that extensions bring

        def __init__(self, **keys: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


class Zones(Section):
    """Bounds of the mean reward (004 §3.2, Appendix B.1; numbers second-hand)."""

    boundary_low: Share = 0.20  # below: too_hard
    boundary_high: Share = 0.85  # above: mastered
    # groups kept per task; the zone reads the latest group, drift the last few
    window: AtLeastOne = 8
    # zone and variance of the latest group, or of all rollouts of the window (004 Appendix K)
    probe: Literal["group", "window"] = "group"
    # groups whose weights lacked more updates than this count for no zone (asynchronous trainers)
    max_staleness: Count = 8

    @model_validator(mode="after")
    def _order(self) -> "Zones":
        if self.boundary_low >= self.boundary_high:
            raise ValueError("boundary_low must lie below boundary_high")
        return self


class Selection(Section):
    """Which tasks become seeds (004 §3.2)."""

    seeds_per_step: Count = 16  # at most so many seeds; 0: no synthesis
    # ranks by proxy, 4·r̄·(1−r̄); by variance of the reward; by variance of the advantage estimates
    # (004 Appendix K); random: any active task (004 Appendix R)
    order: Literal["proxy", "variance", "advantage", "random"] = "proxy"
    # which reward finds the boundary (004 Appendix R)
    boundary: Literal["progress", "binary"] = "progress"
    # a group that always earns 0.5 teaches nothing; false is the paper
    skip_zero_variance: bool = True
    # types that share a quota; random has none
    groups: tuple[tuple[TaskType, ...], ...] = (
        ("base", "long_context"),
        ("miss_func",),
        ("miss_param",),
    )
    quota: Count = 0  # seeds a group of types; 0: ceil(seeds_per_step / groups)
    pass_on_quota: bool = False  # unused quota goes to the other groups
    # groups of the step just finished, or the whole pool, which is what random draws from
    candidates: Literal["step", "pool"] = "step"
    exclusion_steps: Count = 13  # a task is not picked again within so many steps
    # a seed's generation must lie below, originals are 0; 0: no limit
    max_generation: Count = 2
    # sync=free: steps whose seeds wait, the newest served first; 0: all, in order
    queue_steps: Count = 2

    def quota_per_group(self) -> int:
        return self.quota or math.ceil(self.seeds_per_step / max(1, len(self.groups)))


class PoolRules(Section):
    """Injection and retirement (004 §3.4, Appendices B.1 and J)."""

    # of the active pool, an epoch; one variant at least, unless 0
    inject_fraction: Share = 0.20
    max_generated: Count = 400  # active generated tasks
    # nothing is picked while staging holds more injections; 0: picks go on
    staging_epochs: NonNegative = 2.0
    # false: none of the rules below; injection goes on past max_generated (004 Appendix R)
    retirement: bool = True
    burn_in: bool = True  # layer 1
    # mean reward of a new variant below which it goes
    burn_in_below: Share = 0.20
    burn_in_observations: AtLeastOne = 1  # after so many counted groups
    drift: bool = True  # layer 2
    mastered_above: Share = 0.95  # mean of the last drift_groups groups
    too_hard_below: Share = 0.20  # mean of the last drift_groups groups
    # layer 2 reads so many; with zones.probe=window the whole window
    drift_groups: AtLeastOne = 3
    drift_observations: AtLeastOne = 2  # counted groups before layer 2 may judge
    # groups in a row that were cut by length, after which a variant goes; 0: it stays
    truncated_groups: Count = 3
    unsampled_epochs: Count = 3  # 0: never pruned
    capacity: bool = True  # layer 3: lowest window variance goes first when over max_generated
    # share of slots that re-test retired too-hard tasks; 0: 004
    retest_fraction: Share = 0.02
    # 004 Appendix R: max_generated variants are written once, from the opening epoch's boundary,
    # then frozen
    static: bool = False


class PipelineSettings(Section):
    """The five stages (004 §3.3, Appendices D–G) and their switches."""

    needs = tuple(
        (key, 'author = "llm"')
        for key in ("recipes", "high_level", "calls", "answer_tries", "fallback_prompt")
    )

    # who writes: rules (procedural) or the models of operation.endpoints (llm)
    author: Literal["procedural", "llm"] = "procedural"
    # author=llm: plans and worlds of the environment's own recipes; false: of tools alone
    recipes: bool = True
    # author=llm: models may write functions of several tools (004 Appendix D)
    high_level: bool = False
    # author=llm: the rewrite words all turns, or, as in 004, turns that were worded and verified
    calls: Literal["batched", "per_turn"] = "batched"
    # author=llm: times a model is asked until its answer can be read
    answer_tries: AtLeastOne = 3
    # author=llm: classes without a query template use the general one; false: no_prompts
    fallback_prompt: bool = True
    variants_per_seed: AtLeastOne = 1  # at most so many accepted variants a pick
    attempts: AtLeastOne = 3  # pipeline attempts a seed
    planner_retries: AtLeastOne = 3  # plans an attempt, each with a longer blocklist
    # turns said anew after a gate or the judge objected to their words
    refine_cycles: Count = 1
    narrative: bool = True  # stage I plans a story that ties the turns together
    rewrite: bool = True  # stage III words all turns together; false: turn by turn
    feedback: bool = True  # false: blind retry
    judge: bool = True  # stage IV
    adversarial: bool = True  # stage V makes miss_func and miss_param forms
    # other functions than the seed's where the profile allows
    functions: Literal["other", "same"] = "other"


class Gates(Section):
    """Rules that a variant must pass (004 Appendix G)."""

    replay: bool = True  # gate 1: the ground truth runs and gives the recorded results
    tools: bool = True  # gate 2: every call's tool is visible in its turn
    arguments: bool = True  # gate 3: no argument larger than the two limits below
    max_string: AtLeastOne = 128  # characters of a ground-truth text argument
    max_list: AtLeastOne = 6  # elements of a ground-truth list argument
    leaks: bool = True  # no text names a function or parameter or holds raw JSON
    # every value is said, shown, a default, or to be read with a visible tool
    grounding: bool = True
    requests: bool = True  # no call is unasked for, nothing asked for is left undone
    # a value that a turn does not say is the only one that its words can mean
    referents: bool = True
    missing: bool = True  # what miss_param and miss_func take away cannot be had otherwise
    # with `missing`: nothing that a turn without calls asks for can be done in it
    fair_blanks: bool = True
    # no turn asks again, in the same words, for the very calls of an earlier one
    repeats: bool = True
    # same turns and API classes as the root, calls a turn ±1, within the four limits below
    profile: bool = True
    # of the longest chain of results, at most so many calls more or less
    profile_depth: Count = 0
    # from turn to turn, at most so many that only root or variant has
    profile_edges: Count = 1
    # at most, of the API classes and what feeds what among them
    profile_topology: Share = 0.5
    profile_distance: Share = 0.5  # at most, as a whole
    duplicates: bool = True  # near duplicates of pool and staging are refused
    contamination: bool = True  # matches of held-out tasks are refused
    # the ground truth fits rollouts.max_context_tokens, where the daemon has the policy's tokenizer
    room: bool = True
    # of a scenario of a generated world: it passes all controls (docs/generated.md)
    witness: bool = True


class Roles(RoleTables):
    """The roles of language models, a table each, such as `[roles.judge]`: the author's
    (`pipeline.author = "llm"`), those that write feedback, and those that play (`[simulation]`)."""

    plan: Role = Role()  # the planner
    state: WorldRole = WorldRole(tokens=2048, world=6_000)  # a new world from the seed's
    parameters: JudgeRole = JudgeRole(tokens=400, world=2_500)  # values of arguments
    patch: WorldRole = WorldRole(world=5_000)  # the error critic
    query: ResultsRole = ResultsRole(tokens=256)  # turns worded one by one
    verification: ResultsRole = ResultsRole()  # whether these say what their calls do
    rewrite: ResultsRole = ResultsRole(tokens=512)  # all turns worded together
    refine: ResultsRole = ResultsRole()  # one turn worded anew
    # five criteria; results say what the calls met
    judge: JudgeRole = JudgeRole(reason=2_000, tokens=2048, results=4_000, world=500)
    classify: ResultsRole = ResultsRole(reason=1_000, results=12_000)  # where the fault lies
    adversarial: ResultsRole = ResultsRole()  # what is taken away
    adversarial_verification: ResultsRole = ResultsRole()  # whether it is really missing
    # what answers a failure that repeats (`feedback = "agents"`)
    feedback: Role = Role(reason=1_000)
    feedback_judge: Role = Role(reason=1_500, temperature=0.0)  # whether that may be shown
    simulated_task: Role = Role(tokens=1_536)  # a drawn task
    simulated_tool: Role = Role(tokens=1_536)  # what a call returns
    simulated_user: Role = Role(tokens=512)  # what the user says next
    # which criteria a conversation meets
    simulated_verifier: Role = Role(reason=1_500, temperature=0.0)

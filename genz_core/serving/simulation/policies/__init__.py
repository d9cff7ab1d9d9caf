"""Schedulers of serving engines, one file each.

vllm           decodes and prompts share a token budget
sglang         prompts first; decodes wait
tensorrt_llm   prompts together with decodes, whole by default; cache reserved beforehand
static_batch   a batch is served to its end before the next begins
"""

from genz_core.serving.simulation.policies.plan import Plan, Scheduler
from genz_core.serving.simulation.policies.sglang import Sglang
from genz_core.serving.simulation.policies.static_batch import StaticBatch
from genz_core.serving.simulation.policies.tensorrt_llm import TensorRtLlm
from genz_core.serving.simulation.policies.vllm import Vllm

__all__ = ["Plan", "Scheduler", "Sglang", "StaticBatch", "TensorRtLlm", "Vllm"]

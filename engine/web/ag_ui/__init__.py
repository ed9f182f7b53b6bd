from .request import Answer, Asked, RunAgentInput, asked
from .translate import AgUi
from .wire import framed

__all__ = ["AgUi", "Answer", "Asked", "RunAgentInput", "asked", "framed"]

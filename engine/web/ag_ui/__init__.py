from .protocol import framed
from .request import Answer, Asked, RunAgentInput, asked
from .translate import AgUi

__all__ = ["AgUi", "Answer", "Asked", "RunAgentInput", "asked", "framed"]

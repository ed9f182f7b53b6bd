from .protocol import to_sse
from .request import AgUiInput, QuestionAnswer, RunAgentInput, read_input
from .translate import AgUiTranslator

__all__ = ["AgUiInput", "AgUiTranslator", "QuestionAnswer", "RunAgentInput", "read_input", "to_sse"]

"""askd: programs ask people things; people answer, once; everyone interested watches."""

from askd.domain.errors import ContentError
from askd.domain.validation import validate_question

__all__ = ["ContentError", "validate_question"]

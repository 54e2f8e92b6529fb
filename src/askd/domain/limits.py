"""Every limit of the contract (section 2), in bytes unless a name says otherwise."""

KIB = 1024
MIB = 1024 * KIB

IDENTIFIER = 128
REQUEST_IDENTIFIER = 512
QUESTIONS = 32  # of one ask
QUESTION = 256 * KIB
ASK_QUESTIONS = MIB  # encoded, and again as protobuf
TITLE = 256
PROMPT_PARTS = 64
OPTIONS = 100
OPTION_ID = 128
OPTION_LABEL = 256
OPTION_DESCRIPTION = 2 * KIB
ANSWER = 64 * KIB
ASK_ANSWERS = MIB  # encoded, and again as protobuf
FREE_TEXT = 8 * KIB  # custom and notes, encoded
TURN_QUESTIONS = 8 * MIB
REASON = 8 * KIB  # reject reason, consult note and system
NAME = 256  # key names and principals
GRANTS = 64  # of one principal
JSON_DEPTH = 20
JSON_INTEGER = 2**53 - 1
PAGE_ITEMS = 100
DEFAULT_PAGE_ITEMS = 50
PAGE = 3 * MIB  # of a list or a watch response, as protobuf

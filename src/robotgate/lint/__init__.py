"""Lint for robots.txt: the lines that some crawlers read differently from what their author probably meant.

`lint` returns findings; `FindingCode` holds everything that a finding can say.
"""

from robotgate.lint.findings import Finding, FindingCode, Severity
from robotgate.lint.lint import lint

__all__ = ["Finding", "FindingCode", "Severity", "lint"]

# In the root of the package this name is the function's, which ``import robotgate.lint as lint`` gives as well: so all
# names of the package are attributes of the function.
vars(lint).update({name: value for name, value in globals().items() if not name.startswith("__")})

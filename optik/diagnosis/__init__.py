"""Why a configuration is not the solution: certificates, continuations, descents, and the verdict.

`certificate` states the Karush-Kuhn-Tucker facts to second order, `continue_method` lets the method
go on, `descend` asks where a step inside the limits leads, and `diagnose` reads one word of a
closed set (`Status`) and one sentence from the three.
"""

from optik.diagnosis.certificate import Certificate, LimitForce, certificate
from optik.diagnosis.classify import Diagnosis, diagnose
from optik.diagnosis.continuation import Continuation, continue_method
from optik.diagnosis.descent import Descent, descend

__all__ = [
    "Certificate",
    "Continuation",
    "Descent",
    "Diagnosis",
    "LimitForce",
    "certificate",
    "continue_method",
    "descend",
    "diagnose",
]

"""The tables of situations, in the order in which they were written.

Each has `SITUATIONS`, and may have `CONFIGS` (files that its programs read) and `FITS` (labels for
`tcptailor fit`).
"""

from . import (cases, packages, hosts, further, harder, seeming, services, shaped, validation, fresh,
               unfamiliar, midway, fitting, elsewhere, judged, visitors, guests, users, callers, lodgers, relays)
from . import production, fitting_anew, strangers, newcomers, latest, latecomers
from . import drawn, drawn_fifth, drawn_seventh, visitors_fits, guests_fits, users_fits, foretold, callers_fits
from . import lodgers_fits, relays_fits, losses_fits

# For `diagnose`.
DIAGNOSED = (cases, packages, hosts, further, harder, seeming, services, shaped, validation, fresh,
             unfamiliar, midway, fitting, elsewhere, judged, visitors, guests, users, callers, lodgers, relays)
# For `fit`.
FITTED = (fitting, production, fitting_anew, strangers, newcomers, latest, latecomers, drawn, drawn_fifth,
          drawn_seventh, visitors_fits, guests_fits, users_fits, foretold,
          callers_fits, lodgers_fits, relays_fits, losses_fits)

CONFIGS = {name: text for table in dict.fromkeys((*DIAGNOSED, *FITTED))
           for name, text in getattr(table, "CONFIGS", {}).items()}

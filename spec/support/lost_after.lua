-- How many ms specs wait for what a working engine does within milliseconds, before they say that it is
-- lost: see lost_after.h, which has the same for specs' C.
return 120000

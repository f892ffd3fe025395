-- Sums of the counts, and the first that waits by the index of statuses: as much work whatever the number of runs.
select coalesce(sum(pending), 0)::int8, coalesce(sum(running), 0)::int8, coalesce(sum(completed), 0)::int8, coalesce(sum(error), 0)::int8,
    coalesce(sum(cancelled), 0)::int8,
    (select {schema}.millis_1(r.created_at) from {schema}.runs r where r.status = 'PENDING' order by r.run_id limit 1),
    {schema}.millis_1(clock_timestamp())
from {schema}.run_counts

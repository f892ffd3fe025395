-- One query for all runs that a process tails: an index scan for each from where it stands.
select t.run_id, e.seq, e.type, e.data, e.first_index, {schema}.millis_1(e.at)
from unnest($1::uuid[], $2::int[]) t (run_id, index)
cross join lateral (
    select * from {schema}.events e where e.run_id = t.run_id and e.frames > 0 and e.first_index + e.frames > t.index
    order by e.first_index + e.frames limit $3
) e limit $3

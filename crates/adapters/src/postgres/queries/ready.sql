-- What claim_1 could take for a worker, by session, without taking it: the run whose turn it is, its time limit, and where it has a sandbox how long ago
-- it was first claimed.
select b.session, r.run_id, coalesce((submitted.data #>> '{agent,limits,time}')::bigint, 0),
    case when r.placed then {schema}.millis_1(clock_timestamp()) - {schema}.millis_1(r.started_at) end
from {schema}.bindings b
cross join lateral (
    select x.* from {schema}.runs x where x.session = b.session and x.status in ('PENDING', 'RUNNING') order by x.run_id limit 1
) r
join {schema}.events submitted on submitted.run_id = r.run_id and submitted.seq = 0
where b.unended > 0
    and (b.lease_until is null or b.lease_until < clock_timestamp()) and (b.retry_at is null or b.retry_at <= clock_timestamp())
    and b.kind = any ($1) and (b.host is null or b.host = any ($2)
        or b.host in (select h.host from {schema}.hosts h where h.seen_at < clock_timestamp() - make_interval(secs => $3 / 1000.0)))
    and ($4::uuid is null or b.session = $4) and ($5::uuid is null or b.session > $5)
order by b.session limit $6

-- One of them, with what its first and its last event tell of it.
select r.run_id, s.session_id, r.agent_id, s.user_id, r.status, r.kind, r.attempt, r.cancel_requested,
    {schema}.millis_1(r.created_at), {schema}.millis_1(r.started_at), {schema}.millis_1(r.ended_at),
    b.worker, b.host, {schema}.millis_1(b.lease_until), {schema}.millis_1(b.retry_at), submitted.data, last.type, last.data
from {schema}.runs r
join {schema}.sessions s using (session)
join {schema}.events submitted on submitted.run_id = r.run_id and submitted.seq = 0
left join {schema}.bindings b on b.session = r.session and b.run_id = r.run_id
left join lateral (
    select e.type, e.data from {schema}.events e where e.run_id = r.run_id and r.ended_at is not null order by e.seq desc limit 1
) last on true
where r.run_id = $1

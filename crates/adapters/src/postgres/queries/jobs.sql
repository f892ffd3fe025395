-- Runs for operators, newest first: rows alone, no events.
select r.run_id, s.session_id, r.agent_id, s.user_id, r.status, r.kind, r.attempt, r.cancel_requested,
    {schema}.millis_1(r.created_at), {schema}.millis_1(r.started_at), {schema}.millis_1(r.ended_at),
    b.worker, b.host, {schema}.millis_1(b.lease_until), {schema}.millis_1(b.retry_at), null::jsonb, null::text, null::jsonb
from {schema}.runs r
join {schema}.sessions s using (session)
left join {schema}.bindings b on b.session = r.session and b.run_id = r.run_id
where ($1::text is null or r.status = $1) and ($2::uuid is null or r.run_id < $2)
order by r.run_id desc limit $3

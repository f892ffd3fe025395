-- Runs as they are read, newest first: the row, the first event, the last one of an ended run, and what an unended one waits for. At most $10 bytes of
-- events, but one run always; the last column tells whether there are more. Which runs
-- they are is settled first, so that no event of another is read; and whose, by equality: the index on users serves no `is not distinct from`.
with page as (
select r.run_id, r.session_id, r.agent_id, r.user_id, r.status, r.attempt, r.cancel_requested,
    {schema}.millis_1(r.created_at) as created_at, {schema}.millis_1(r.started_at) as started_at, {schema}.millis_1(r.ended_at) as ended_at,
    submitted.data as submitted, last.type as last_type, last.data as last, before.run_id as before,
    host.label as host, {schema}.millis_1(host.since) as since
from (
    select r.*, s.session_id, s.user_id from {schema}.runs r join {schema}.sessions s using (session)
    where ($1::uuid is null or r.run_id = $1)
        and ($2::text is null or r.agent_id = $2)
        and ($3::text is null or r.session = (select x.session from {schema}.sessions x where x.session_id = $3))
        and ($4::text is null or s.user_id = $4)
        and ($5::text is null or r.status = $5)
        and ($6::uuid is null or r.run_id < $6)
        and (not $7::boolean or case when $8::text is null then s.user_id is null else s.user_id = $8 end)
    order by r.run_id desc limit $9 + 1
) r
join {schema}.events submitted on submitted.run_id = r.run_id and submitted.seq = 0
left join lateral (
    select e.type, e.data from {schema}.events e where e.run_id = r.run_id and r.ended_at is not null order by e.seq desc limit 1
) last on true
left join lateral (
    select x.run_id from {schema}.runs x
    where r.ended_at is null and x.session = r.session and x.status in ('PENDING', 'RUNNING') and x.run_id < r.run_id
    order by x.run_id desc limit 1
) before on true
left join lateral (
    -- Its sandbox stands on a host that is silent.
    select h.label, h.seen_at as since from {schema}.bindings b join {schema}.hosts h using (host)
    where r.placed and r.ended_at is null and b.session = r.session
        and (b.lease_until is null or b.lease_until < clock_timestamp()) and h.seen_at < clock_timestamp() - interval '30 seconds'
    union all
    -- No worker that is alive makes its kind of sandbox.
    select 'any host with ' || r.kind || ' sandboxes', coalesce(h.seen_at, r.created_at)
    from (select max(seen_at) as seen_at from {schema}.hosts where kind = r.kind) h
    where r.status = 'PENDING' and before.run_id is null and coalesce(h.seen_at, r.created_at) < clock_timestamp() - interval '30 seconds'
    limit 1
) host on true
), sized as (
    select page.*, row_number() over newest as n, count(*) over () as found,
        sum(octet_length(submitted::text) + coalesce(octet_length(last::text), 0)) over newest as bytes
    from page window newest as (order by run_id desc)
), fitting as (
    select * from sized where n <= $9 and (bytes <= $10 or n = 1)
)
select run_id, session_id, agent_id, user_id, status, attempt, cancel_requested, created_at, started_at, ended_at,
    submitted, last_type, last, before, host, since, found > count(*) over () as more
from fitting order by run_id desc

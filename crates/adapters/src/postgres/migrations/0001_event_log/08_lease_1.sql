-- Renews what is still held and shows the hosts alive. Answers for what is held only.
create or replace function {schema}.heartbeat_1(
    p_sessions uuid[], p_claims uuid[], p_hosts text[], p_kinds text[], p_labels text[], p_lease_ms bigint
) returns table (o_claim uuid, o_cancel_requested boolean) language plpgsql as $$
declare
    v_at timestamptz := clock_timestamp();
begin
    insert into {schema}.hosts as h select x.host, x.kind, x.label, v_at from unnest(p_hosts, p_kinds, p_labels) x (host, kind, label) order by 1
    on conflict (host) do update set kind = excluded.kind, label = excluded.label, seen_at = greatest(h.seen_at, v_at);
    -- Locked in one order, so that two workers' heartbeats cannot wait for each other.
    perform 1 from {schema}.bindings b where b.session = any (p_sessions) order by b.session for update;
    return query update {schema}.bindings b set lease_until = v_at + make_interval(secs => p_lease_ms / 1000.0), renewed = true
        from unnest(p_sessions, p_claims) h (session, claim)
        where b.session = h.session and b.claim_id = h.claim
        returning h.claim, (select r.cancel_requested from {schema}.runs r where r.run_id = b.run_id);
end $$;

-- Stops driving with nothing lost: the next worker goes on at once. SL423: the lease is another's.
create or replace function {schema}.hand_over_1(p_run uuid, p_seq int, p_index int, p_reason text, p_session uuid, p_claim uuid)
returns void language plpgsql as $$
begin
    update {schema}.bindings set claim_id = null, worker = null, lease_until = null where session = p_session and claim_id = p_claim;
    if not found then
        raise exception 'not held' using errcode = 'SL423';
    end if;
    insert into {schema}.events values (
        p_run, p_seq, 'handed_over', jsonb_build_object('v', 1, 'reason', p_reason), p_index, 0, clock_timestamp());
end $$;

-- Takes the session whose turn it is, and its first run that has not ended. The binding is locked alone: with a join in the locking
-- statement only the binding would be looked at again after a wait, and a run could be claimed after its terminal event.
create or replace function {schema}.claim_1(
    p_worker text, p_kinds text[], p_hosts text[], p_lease_ms bigint, p_dead_man_ms bigint, p_session uuid
) returns table (
    o_session uuid, o_session_id text, o_run_id uuid, o_claim_id uuid, o_epoch bigint, o_host text, o_checkpoint text, o_conversation text, o_sandbox text,
    o_idle_claims int
) language plpgsql as $$
declare
    v_at timestamptz;
    v_claim uuid := gen_random_uuid();
    -- Silent for longer than its runners outlive their last visit: nothing of it is alive.
    v_dead text[] := array(
        select h.host from {schema}.hosts h where h.seen_at < clock_timestamp() - make_interval(secs => (p_dead_man_ms + p_lease_ms) / 1000.0));
    v_binding {schema}.bindings;
    v_host text;
    v_run uuid;
    v_last record;
    v_idle int;
begin
    loop
        v_at := clock_timestamp();
        select * into v_binding from {schema}.bindings b
        where b.unended > 0 and (p_session is null or b.session = p_session)
            and (b.lease_until is null or b.lease_until < v_at) and (b.retry_at is null or b.retry_at <= v_at)
            and b.kind = any (p_kinds) and (b.host is null or b.host = any (p_hosts) or b.host = any (v_dead))
        order by (b.sandbox is null), b.since limit 1 for update skip locked;
        if not found then
            return;
        end if;

        select r.run_id into v_run from {schema}.runs r
        where r.session = v_binding.session and r.status in ('PENDING', 'RUNNING') order by r.run_id limit 1;
        if not found then
            -- The count was wrong: put it right, and do not let it hold up the others.
            update {schema}.bindings set unended = 0 where session = v_binding.session;
            continue;
        end if;
        -- By now, not by when the wait for it began: a turn starts after the one before it has ended.
        v_at := clock_timestamp();
        v_host := case when v_binding.host = any (p_hosts) then v_binding.host else p_hosts[array_position(p_kinds, v_binding.kind)] end;

        -- A holder that lost its lease may still append: go one past it.
        loop
            select e.seq, e.type, e.first_index + e.frames as next_index into v_last
            from {schema}.events e where e.run_id = v_run order by e.seq desc limit 1;
            insert into {schema}.events values (v_run, v_last.seq + 1, 'run.claimed', jsonb_build_object(
                'v', 1, 'epoch', v_binding.epoch + 1, 'claim', v_claim, 'host', v_host, 'worker', p_worker), v_last.next_index, 0, v_at)
            on conflict do nothing;
            exit when found;
        end loop;
        update {schema}.runs set status = 'RUNNING', started_at = v_at where run_id = v_run and status = 'PENDING';
        v_idle := case when v_last.type = 'run.claimed' and not v_binding.renewed then v_binding.idle_claims + 1 else 0 end;
        update {schema}.bindings set epoch = v_binding.epoch + 1, claim_id = v_claim, run_id = v_run, worker = p_worker,
            lease_until = v_at + make_interval(secs => p_lease_ms / 1000.0), renewed = false, idle_claims = v_idle, retry_at = null,
            visited = case when v_host = any (v_binding.visited) then v_binding.visited else v_binding.visited || v_host end
        where session = v_binding.session;
        return query select s.session, s.session_id, v_run, v_claim, v_binding.epoch + 1, v_host, v_binding.checkpoint,
                v_binding.conversation, case when v_binding.host = v_host then v_binding.sandbox end, v_idle
            from {schema}.sessions s where s.session = v_binding.session;
        return;
    end loop;
end $$;

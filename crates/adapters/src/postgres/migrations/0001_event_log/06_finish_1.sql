-- Takes a run out of what its session has in hand. The binding is locked by the caller.
create or replace function {schema}.settle_1(p_session uuid, p_run uuid, p_checkpoint text, p_conversation text, p_at timestamptz) returns void language plpgsql as $$
begin
    update {schema}.bindings b set unended = b.unended - 1, 
        -- A new checkpoint comes with its own conversation, or with none.
        checkpoint = coalesce(p_checkpoint, b.checkpoint),
        conversation = case when p_checkpoint is null then b.conversation else p_conversation end,
        kind = coalesce((select r.kind from {schema}.runs r
            where r.session = p_session and r.status in ('PENDING', 'RUNNING') order by r.run_id limit 1), b.kind)
    where b.session = p_session;
    -- The lease is freed only where it is held for this run: another turn of the session may be on its way. A session that had its turn goes to
    -- the end of the queue.
    update {schema}.bindings set since = p_at, claim_id = null, run_id = null, worker = null, lease_until = null, renewed = false, idle_claims = 0,
        retry_at = null, host = null, sandbox = null
    where session = p_session and run_id = p_run;
end $$;

-- The end of a turn: its last events, result, checkpoint and the lease's release, in one call. The fence is the key of the log: who lost the
-- lease finds p_seq taken. SL410: the run is gone or has ended.
create or replace function {schema}.finish_1(
    p_run uuid, p_session uuid, p_seq int, p_index int, p_types text[], p_data jsonb[], p_frames int[], p_status text, p_checkpoint text, p_conversation text
) returns void language plpgsql as $$
declare
    v_at timestamptz;
begin
    perform 1 from {schema}.bindings b where b.session = p_session for update;
    v_at := clock_timestamp();
    update {schema}.runs set status = p_status, ended_at = v_at, placed = false where run_id = p_run and status in ('PENDING', 'RUNNING');
    if not found then
        raise exception 'gone' using errcode = 'SL410';
    end if;
    -- Only the last of them has frames, so all begin at one index.
    insert into {schema}.events
    select p_run, p_seq + e.n::int - 1, e.type, e.data, p_index, e.frames, v_at
    from unnest(p_types, p_data, p_frames) with ordinality e (type, data, frames, n);
    perform {schema}.settle_1(p_session, p_run, p_checkpoint, p_conversation, v_at);
end $$;

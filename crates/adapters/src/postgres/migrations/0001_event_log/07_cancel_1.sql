-- The wish to cancel goes into the log; and the end too, where no sandbox is asked for and so nothing can be running. It loops here, in the
-- server: beside a writer that appends fast, a client that retries would lose every race.
create or replace function {schema}.cancel_1(p_agent_id text, p_run uuid, p_scoped boolean, p_user_id text)
returns table (o_status text, o_cancel_requested boolean, o_session uuid) language plpgsql as $$
declare
    v_at timestamptz;
    v_run {schema}.runs;
    v_last record;
begin
    perform 1 from {schema}.runs r join {schema}.sessions s using (session)
    where r.run_id = p_run and r.agent_id = p_agent_id and (not p_scoped or s.user_id is not distinct from p_user_id);
    if not found then
        return;
    end if;
    perform 1 from {schema}.bindings b where b.session = (select r.session from {schema}.runs r where r.run_id = p_run) for update;
    select * into v_run from {schema}.runs r where r.run_id = p_run for update;
    loop
        if v_run.status not in ('PENDING', 'RUNNING') or (v_run.cancel_requested and v_run.placed) then
            return query select v_run.status, v_run.cancel_requested, v_run.session;
            return;
        end if;
        v_at := clock_timestamp();
        select e.seq, e.first_index + e.frames as next_index into v_last
        from {schema}.events e where e.run_id = p_run order by e.seq desc limit 1;
        if not v_run.cancel_requested then
            insert into {schema}.events values (p_run, v_last.seq + 1, 'cancel.requested', '{"v": 1}', v_last.next_index, 0, v_at)
            on conflict do nothing;
            continue when not found;
            update {schema}.runs set cancel_requested = true where run_id = p_run returning * into v_run;
        else
            insert into {schema}.events values (
                p_run, v_last.seq + 1, 'run.cancelled', '{"v": 1, "reason": "cancelled by request"}', v_last.next_index, 1, v_at)
            on conflict do nothing;
            continue when not found;
            update {schema}.runs set status = 'CANCELLED', ended_at = v_at where run_id = p_run returning * into v_run;
            perform {schema}.settle_1(v_run.session, p_run, null, null, v_at);
        end if;
    end loop;
end $$;

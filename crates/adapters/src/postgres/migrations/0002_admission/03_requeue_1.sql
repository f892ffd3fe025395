-- A new run of what an ended run was: its definition, input and attachments, at its session's tail. No row: there is no such run.
-- SL500: p_one_host, as for a submission. SL412: it has not ended.
create or replace function {schema}.requeue_1(p_run uuid, p_one_host boolean)
returns table (o_run_id uuid, o_session_id text, o_session uuid, o_agent_id text) language plpgsql as $$
declare
    v_at timestamptz := clock_timestamp();
    v_run uuid := {schema}.uuid7_1(null);
    v_old {schema}.runs;
    v_session_id text;
    v_data jsonb;
begin
    select * into v_old from {schema}.runs r where r.run_id = p_run;
    if not found then
        return;
    elsif p_one_host and {schema}.hosts_1() > 1 then
        raise exception 'several hosts' using errcode = 'SL500';
    elsif v_old.ended_at is null then
        raise exception 'not ended' using errcode = 'SL412';
    end if;
    update {schema}.sessions s set updated_at = v_at, runs = s.runs + 1,
        last_run = case when v_run > s.last_run then v_run else {schema}.uuid7_1(s.last_run) end
    where s.session = v_old.session returning s.session_id, s.last_run into v_session_id, v_run;
    -- Asked again under the session's lock: it may have been erased meanwhile, and then nothing was locked; or retention has dropped the run.
    select e.data into v_data from {schema}.events e where e.run_id = p_run and e.seq = 0;
    if v_session_id is null or v_data is null then
        raise exception 'gone' using errcode = 'SL410';
    end if;
    insert into {schema}.bindings as b (session, unended, kind, since) values (v_old.session, 1, v_old.kind, v_at)
    on conflict (session) do update set unended = b.unended + 1,
        kind = case when b.unended = 0 then excluded.kind else b.kind end,
        since = case when b.unended = 0 then excluded.since else b.since end;
    insert into {schema}.runs (run_id, session, agent_id, kind, status, created_at)
    values (v_run, v_old.session, v_old.agent_id, v_old.kind, 'PENDING', v_at);
    insert into {schema}.events (run_id, seq, type, data, first_index, frames, at)
    values (v_run, 0, 'run.submitted', v_data || jsonb_build_object('requeued_from', p_run), 0, 0, v_at);
    insert into {schema}.attachments (run_id, n, name, media_type, sha256, body)
    select v_run, a.n, a.name, a.media_type, a.sha256, a.body from {schema}.attachments a where a.run_id = p_run;
    return query select v_run, v_session_id, v_old.session, v_old.agent_id;
end $$;

create or replace function {schema}.upkeep_2() returns void language plpgsql security definer set search_path = pg_catalog as $$
begin
    perform {schema}.upkeep_1();
    perform {schema}.recount_1(false);
end $$;

insert into {schema}.migrations (version) values (2) on conflict do nothing;

-- An event that says where the run's sandbox is, or is no more, and what the binding is told of it. SL410: the run is gone. SL423: the lease is another's.
create or replace function {schema}.place_1(
    p_run uuid, p_seq int, p_type text, p_data jsonb, p_index int, p_session uuid, p_claim uuid,
    p_host text, p_sandbox text, p_attempt int, p_retry_at bigint
) returns bigint language plpgsql as $$
declare
    v_at timestamptz := clock_timestamp();
begin
    update {schema}.bindings set host = p_host, sandbox = p_sandbox, retry_at = to_timestamp(p_retry_at / 1000.0)
    where session = p_session and claim_id = p_claim;
    if not found then
        raise exception 'not held' using errcode = 'SL423';
    end if;
    update {schema}.runs set placed = p_sandbox is not null, attempt = coalesce(p_attempt, attempt) where run_id = p_run;
    if not found then
        raise exception 'gone' using errcode = 'SL410';
    end if;
    insert into {schema}.events values (p_run, p_seq, p_type, p_data, p_index, 0, v_at);
    return {schema}.millis_1(v_at);
end $$;

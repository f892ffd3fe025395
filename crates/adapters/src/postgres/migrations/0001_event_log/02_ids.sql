-- Milliseconds since the epoch: what goes over the wire instead of timestamps.
create or replace function {schema}.millis_1(t timestamptz) returns bigint language sql immutable parallel safe as
$$ select (extract(epoch from t) * 1000)::bigint $$;

-- A UUIDv7 by the database's clock, greater than p_after: runs of a session sort by id in the order of acceptance,
-- also within one millisecond and when the clock steps back.
create or replace function {schema}.uuid7_1(p_after uuid) returns uuid language plpgsql volatile as $$
declare
    v_ms bigint := {schema}.millis_1(clock_timestamp());
    v_id uuid;
begin
    loop
        -- 48 bits of time over a random UUIDv4; then its version bits 0100 become 0111.
        v_id := encode(set_bit(set_bit(
            substring(int8send(v_ms) from 3) || substring(uuid_send(gen_random_uuid()) from 7), 52, 1), 53, 1), 'hex')::uuid;
        if p_after is null or v_id > p_after then
            return v_id;
        end if;
        v_ms := greatest(v_ms, ('x' || left(replace(p_after::text, '-', ''), 12))::bit(48)::bigint) + 1;
    end loop;
end $$;

-- The least id of an instant: a partition's bound.
create or replace function {schema}.uuid7_from_1(t timestamptz) returns uuid language sql immutable as
$$ select (lpad(to_hex({schema}.millis_1(t)), 12, '0') || repeat('0', 20))::uuid $$;

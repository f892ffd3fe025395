-- What the functions' role may do. Events are append-only by grant, not by discipline.
grant usage on schema {schema} to {role};
grant select, insert on {schema}.events to {role};
grant select, insert, update, delete on {schema}.sessions, {schema}.runs, {schema}.bindings, {schema}.hosts, {schema}.attachments,
    {schema}.idempotency_keys, {schema}.erasures to {role};
grant select, update on {schema}.run_counts to {role};
grant select on {schema}.migrations, {schema}.deployment, {schema}.seal to {role};
-- The owner's functions run as the owner: nobody else calls them unless named here.
revoke execute on function {schema}.make_partitions_1(), {schema}.upkeep_1(), {schema}.erase_1(text, boolean, text),
    {schema}.drop_partitions_1(timestamptz), {schema}.upkeep_2(), {schema}.recount_1(boolean) from public;
grant execute on function {schema}.upkeep_1(), {schema}.upkeep_2(), {schema}.erase_1(text, boolean, text), {schema}.drop_partitions_1(timestamptz) to {role};

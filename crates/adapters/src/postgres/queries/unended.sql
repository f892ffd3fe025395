select count(*) filter (where status = 'PENDING'), count(*) filter (where status = 'RUNNING'),
    coalesce({schema}.millis_1(clock_timestamp()) - {schema}.millis_1(min(created_at) filter (where status = 'PENDING')), 0)
from {schema}.runs where status in ('PENDING', 'RUNNING')

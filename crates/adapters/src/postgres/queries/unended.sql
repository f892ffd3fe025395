select count(*) filter (where status = 'PENDING'), count(*) filter (where status = 'RUNNING')
from {schema}.runs where status in ('PENDING', 'RUNNING')

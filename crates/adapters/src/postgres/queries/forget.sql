delete from {schema}.erasures where session = $1 and host = $2

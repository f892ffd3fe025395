select secret from {schema}.seal

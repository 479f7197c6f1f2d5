"""The command line for people and rights: logins of this user, accounts, organisations, tokens, sharing, administration."""

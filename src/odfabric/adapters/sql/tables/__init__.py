"""The tables of the node, by subject; `every_table` has the metadata of all.

They own names, columns and constraints as the code uses them; `migrations` make the same shape, which a test compares. Invariants that the
database keeps: one head and one name per dataset, one block per number and per hash, one record per idempotency key, one commit per job,
one unfinished job per dedup key, one running job per dataset, gap-free numbers at most once per subscription, one flow of a kind per
dataset, one waiting and one running run per flow, one account per name, one role per account and object, one count per refusal.
"""

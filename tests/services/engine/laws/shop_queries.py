"""A shop's questions, one for each usual combination of operators in reports.

Written in the text of `general_dialects`.

Not here: the tables (`shop_history`).
"""

from __future__ import annotations

from tests.services.engine.laws.grammar.dialects import either

_INCOME = "i.amount * i.quantity"
_LATE = "i.arrived > i.promised"

QUERIES = {
    # The first relations have nothing to do with one another.
    "share of a country": f"""
        SELECT max(i.event_time) AS event_time, c.zone, extract(year FROM p.placed) AS y,
            sum(CASE WHEN v.code = 'PT' THEN {_INCOME} ELSE 0 END) / sum({_INCOME}) AS share
        FROM article a, vendor v, item i, purchase p, buyer b, country c
        WHERE a.article_no = i.article_no AND v.vendor_no = i.vendor_no AND p.purchase_no = i.purchase_no
            AND b.buyer_no = p.buyer_no AND c.code = b.code AND a.kind <> 'desk'
        GROUP BY c.zone, extract(year FROM p.placed)""",
    "cheapest of its zone": """
        SELECT o.event_time, a.article_no, a.brand, v.vendor_no, o.cost, c.zone
        FROM article a, vendor v, offer o, country c
        WHERE a.article_no = o.article_no AND v.vendor_no = o.vendor_no AND v.code = c.code AND a.weight < 25
            AND o.cost = (SELECT min(x.cost) FROM offer x, vendor y, country z
                WHERE x.article_no = a.article_no AND y.vendor_no = x.vendor_no AND y.code = z.code AND z.zone = c.zone)""",
    "alone to blame": f"""
        SELECT max(i.event_time) AS event_time, i.vendor_no, count(*) AS n FROM item i JOIN purchase p USING (purchase_no)
        WHERE p.state <> 'open' AND {_LATE}
            AND EXISTS (SELECT 1 FROM item o WHERE o.purchase_no = i.purchase_no AND o.vendor_no <> i.vendor_no)
            AND NOT EXISTS (SELECT 1 FROM item o WHERE o.purchase_no = i.purchase_no AND o.vendor_no <> i.vendor_no
                AND o.arrived > o.promised)
        GROUP BY i.vendor_no""",
    "best vendors": f"""
        WITH income AS (SELECT max(i.event_time) AS latest, i.vendor_no, sum({_INCOME}) AS total FROM item i
            WHERE i.promised >= DATE '2024-03-01' AND i.promised < DATE '2024-03-01' + INTERVAL '18' MONTH GROUP BY i.vendor_no)
        SELECT m.latest AS event_time, v.vendor_no, v.code, m.total / (SELECT sum(total) FROM income) AS share
        FROM vendor v JOIN income m ON m.vendor_no = v.vendor_no WHERE m.total > 0.5 * (SELECT max(total) FROM income)""",
    "creditworthy and away": """
        SELECT max(b.event_time) AS event_time, b.segment, count(*) AS n, sum(b.credit) AS credit FROM buyer b
        WHERE b.credit > (SELECT 0.5 * avg(x.credit) FROM buyer x WHERE x.credit > 0)
            AND NOT EXISTS (SELECT 1 FROM purchase p WHERE p.buyer_no = b.buyer_no AND p.placed >= DATE '2025-09-01')
        GROUP BY b.segment""",
    # A range beside an equality, within an aggregate.
    "the how manieth": """
        SELECT p.event_time, p.purchase_no, p.buyer_no,
            (SELECT count(*) FROM purchase q WHERE q.buyer_no = p.buyer_no AND q.placed < p.placed) AS before,
            (SELECT sum(i.amount) FROM item i WHERE i.purchase_no = p.purchase_no AND i.promised > p.placed) AS later
        FROM purchase p""",
    "subtotals and shares": f"""
        SELECT max(i.event_time) AS event_time, a.kind, a.brand, grouping(a.kind) AS no_kind, sum({_INCOME}) AS income,
            sum({_INCOME}) / sum(sum({_INCOME})) OVER (PARTITION BY grouping(a.kind), grouping(a.brand)) AS share
        FROM item i JOIN article a ON a.article_no = i.article_no GROUP BY ROLLUP (a.kind, a.brand)""",
    "three best of each zone": f"""
        SELECT event_time, zone, buyer_no, income, place FROM (
            SELECT max(i.event_time) AS event_time, c.zone, b.buyer_no, sum({_INCOME}) AS income,
                rank() OVER (PARTITION BY c.zone ORDER BY sum({_INCOME}) DESC) AS place
            FROM item i JOIN purchase p ON p.purchase_no = i.purchase_no JOIN buyer b ON b.buyer_no = p.buyer_no
                LEFT JOIN country c ON c.code = b.code GROUP BY c.zone, b.buyer_no) WHERE place <= 3""",
    "placed and arrived": """
        SELECT coalesce(p.latest, i.latest) AS event_time, coalesce(p.month, i.month) AS month, p.n AS placed, i.n AS arrived
        FROM (SELECT max(event_time) AS latest, extract(year FROM placed) * 100 + extract(month FROM placed) AS month,
                count(*) AS n FROM purchase WHERE state = 'paid' GROUP BY 2) p
            FULL OUTER JOIN (SELECT max(event_time) AS latest, extract(year FROM arrived) * 100 + extract(month FROM arrived) AS month,
                count(*) AS n FROM item WHERE arrived IS NOT NULL GROUP BY 2) i ON i.month = p.month""",
    "buyers of both years and no lamp": """
        SELECT b.event_time, b.buyer_no, b.segment FROM buyer b JOIN (
            (SELECT buyer_no FROM purchase WHERE placed < DATE '2025-01-01'
                INTERSECT SELECT buyer_no FROM purchase WHERE placed >= DATE '2025-01-01')
            EXCEPT SELECT p.buyer_no FROM purchase p JOIN item i ON i.purchase_no = p.purchase_no
                JOIN article a ON a.article_no = i.article_no WHERE a.kind = 'lamp' AND i.quantity > 9) s
            ON s.buyer_no = b.buyer_no""",
    "streaks": f"""
        WITH marked AS (SELECT event_time, buyer_no, purchase_no, placed, CASE WHEN lag(placed)
                    OVER (PARTITION BY buyer_no ORDER BY placed, purchase_no) >= placed - INTERVAL '60' DAY THEN 0 ELSE 1 END AS new
                FROM purchase),
            numbered AS (SELECT *, sum(new) OVER (PARTITION BY buyer_no ORDER BY placed, purchase_no
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS streak FROM marked)
        SELECT max(event_time) AS event_time, buyer_no, streak, count(*) AS n, min(placed) AS since, max(placed) AS until,
            {either("sort_array(collect_list(purchase_no))", "list_sort(list(purchase_no))")} AS purchases
        FROM numbered GROUP BY buyer_no, streak""",
}

// SQL of the editor: Spark's words, and completion from the tables and columns that the page names.

import { sql, SQLDialect } from "@codemirror/lang-sql";

const KEYWORDS =
  "all and anti any array as asc between both by case cast cluster cross cube current current_date current_timestamp desc describe distinct " +
  "distribute else end escape except exists explain extract false filter first following for from full group grouping having ilike in inner " +
  "intersect interval into is join last lateral leading left like limit map minus natural not null nulls offset on or order outer over " +
  "partition pivot position preceding qualify range recursive regexp right rlike rollup row rows select semi sets show some sort struct table " +
  "tablesample then to trailing true try_cast unbounded union unpivot using values view when where window with within";
const TYPES =
  "bigint binary boolean byte char date decimal double float int integer long numeric real short smallint string timestamp timestamp_ntz " +
  "tinyint varchar";
const SPARK = SQLDialect.define({ backslashEscapes: true, doubleQuotedStrings: true, identifierQuotes: "`", keywords: KEYWORDS, types: TYPES });

const WORD = /[\p{L}_][\p{L}\p{N}_]*$/u;
const PLAIN_NAME = /^[a-z_][a-z0-9_]*$/i;

/** {table: [columns]} of <script type="application/json" id="editor-schema">. */
function schemaOfPage() {
  const element = document.getElementById("editor-schema");
  return element ? new Map(Object.entries(JSON.parse(element.textContent))) : new Map();
}

/** The columns of the tables that the text names, also without the table before them. */
function columnsOfNamedTables(schema) {
  return (context) => {
    const word = context.matchBefore(WORD);
    if (!word && !context.explicit) return null;
    const from = word?.from ?? context.pos;
    if (context.state.sliceDoc(from - 1, from) === ".") return null; // the schema's own completion knows these
    const text = context.state.doc.toString();
    const options = new Map();
    for (const [table, columns] of schema) {
      if (!text.includes(table)) continue;
      for (const column of columns) {
        const apply = PLAIN_NAME.test(column) ? column : `\`${column.replaceAll("`", "``")}\``;
        options.set(column, { label: column, apply, detail: table, type: "property", boost: 1 });
      }
    }
    return options.size ? { from, options: [...options.values()], validFor: /^[\p{L}\p{N}_]*$/u } : null;
  };
}

/** Language support with the schema of this page. */
export function sqlLanguage() {
  const schema = schemaOfPage();
  // A dot in a key means a level of names; those of datasets are one name.
  const tables = Object.fromEntries([...schema].map(([table, columns]) => [table.replaceAll(".", "\\."), columns]));
  return [sql({ dialect: SPARK, schema: tables }), SPARK.language.data.of({ autocomplete: columnsOfNamedTables(schema) })];
}

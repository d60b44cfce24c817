import type pg from 'pg';

const COLUMNS_QUERY = `
  select c.relname as "table", a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
         a.attnotnull as required,
         case when a.attidentity <> '' then 'generated always as identity'
              when a.attgenerated <> '' then 'generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') stored'
              when d.adbin is not null then 'default ' || pg_get_expr(d.adbin, d.adrelid)
         end as value
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
  order by c.relname, a.attnum`;

// Excludes not-null constraints, which COLUMNS_QUERY returns. Only PostgreSQL 18 and later list them here.
const CONSTRAINTS_QUERY = `
  select conrelid::regclass::text as "table", pg_get_constraintdef(oid) as text
  from pg_constraint
  where connamespace = 'public'::regnamespace and contype <> 'n'
  order by 1, contype, conname`;

const INDEXES_QUERY = `
  select tablename as "table", indexdef as text
  from pg_indexes i
  where schemaname = 'public'
    and not exists (select from pg_constraint where conname = i.indexname)
  order by tablename, indexname`;

type Column = {
  table: string;
  name: string;
  type: string;
  required: boolean;
  value: string | null;
};
type TableClause = { table: string; text: string };

/** Formats the tables of the migrated database as SQL for readers. */
export async function dumpSchema(pool: pg.Pool): Promise<string> {
  const { rows: columns } = await pool.query<Column>(COLUMNS_QUERY);
  const { rows: constraints } = await pool.query<TableClause>(CONSTRAINTS_QUERY);
  const { rows: indexes } = await pool.query<TableClause>(INDEXES_QUERY);
  const tables = [...new Set(columns.map((column) => column.table))].map((table) => {
    const lines = [
      ...columns
        .filter((column) => column.table === table)
        .map(({ name, type, required, value }) =>
          [name, type, required ? 'not null' : '', value ?? ''].filter(Boolean).join(' '),
        ),
      ...constraints
        .filter((constraint) => constraint.table === table)
        .map((constraint) => constraint.text),
    ];
    const indexLines = indexes
      .filter((index) => index.table === table)
      .map((index) => `${index.text};\n`);
    return `create table ${table} (\n${lines.map((line) => `  ${line}`).join(',\n')}\n);\n${indexLines.join('')}`;
  });
  return `-- All migrations together. Made by \`npm run generate\`; the migrations are what runs.\n\n${tables.join('\n')}`;
}

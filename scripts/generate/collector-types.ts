import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** Resolves the generator from the assistant, because the generator needs a different version of TypeScript. */
const resolve = createRequire(
  join(import.meta.dirname, '../../apps/assistant/package.json'),
).resolve;

/** Generates the types of the collector's API, the listing fields and the search filters for the assistant. */
export function generateCollectorTypes(document: object): string {
  const command = join(dirname(resolve('openapi-typescript/package.json')), 'bin/cli.js');
  // Properties with a default stay optional, because requests may omit them.
  const types = execFileSync(process.execPath, [command, '--default-non-nullable=false'], {
    input: JSON.stringify(document),
    encoding: 'utf8',
  });
  const fields = JSON.stringify(extractListingFields(document), null, 2);
  return `// Made by npm run generate from the collector's OpenAPI document.

${types}
/** Fields of a listing in their order, with their presentation. */
export const listingFields = ${fields} as const;

/** Schemas of the search filters. */
export const searchFilters = ${JSON.stringify(extractSearchFilters(document), null, 2)};
`;
}

/** Returns the schemas of the filters in `SearchMatchesRequest`, without `ids` and without default values. */
function extractSearchFilters(document: object): object {
  const { ids: _ids, ...filters } = (document as Document).components.schemas.SearchMatchesRequest
    .properties;
  return Object.fromEntries(
    Object.entries(filters).map(([name, { default: _default, ...filter }]) => [name, filter]),
  );
}

type Property = { 'x-label'?: string; 'x-unit'?: string | string[]; 'x-shown'?: string };
type Document = {
  components: {
    schemas: {
      Listing: { properties: Record<string, Property> };
      SearchMatchesRequest: { properties: Record<string, { default?: unknown }> };
    };
  };
};

function extractListingFields(document: object): object[] {
  const { properties } = (document as Document).components.schemas.Listing;
  return Object.entries(properties).flatMap(([name, property]) => {
    const { 'x-label': label, 'x-unit': unit, 'x-shown': shown } = property;
    return label === undefined ? [] : [{ name, label, unit: unit ?? null, shown: shown ?? null }];
  });
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openapi } from '../../src/main.ts';

type Operation = {
  tags: string[];
  description?: string;
  security?: object[];
  requestBody?: { content: Record<string, { schema: object }> };
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, { additionalProperties?: boolean; properties: object }>;
    securitySchemes: Record<string, object>;
  };
  tags: { name: string }[];
};

test('The OpenAPI document names the schemas of the specification and guards every route of the API', async () => {
  const { paths, components, tags } = (await openapi()) as Document;
  const { Problem: _problem, ...requestSchemas } = components.schemas;
  assert.deepEqual(Object.keys(requestSchemas).toSorted(), [
    'BrowseRequest',
    'BrowseResponse',
    'Facet',
    'FacetsRequest',
    'FacetsResponse',
    'FulltextSearchRequest',
    'FulltextSearchResponse',
    'FulltextSearchResult',
    'Histogram',
    'Listing',
    'PayloadSchema',
    'PointsRequest',
    'PointsResponse',
    'SearchMatchesRequest',
    'SearchMatchesResponse',
    'SimilarSearchRequest',
    'SimilarSearchResponse',
    'SuggestResponse',
  ]);
  for (const [path, name] of [
    ['/api/v1/ingest', 'PayloadSchema'],
    ['/api/v1/search/fulltext', 'FulltextSearchRequest'],
    ['/api/v1/search/hybrid', 'FulltextSearchRequest'],
    ['/api/v1/search/similar', 'SimilarSearchRequest'],
    ['/api/v1/search/matches', 'SearchMatchesRequest'],
  ] as const) {
    const content = paths[path]?.['post']?.requestBody?.content;
    const $ref = `#/components/schemas/${name}`;
    assert.deepEqual(content?.['application/json']?.schema, { $ref }, path);
    assert.equal(requestSchemas[name]?.additionalProperties, false, name);
  }
  const tagNames = tags.map(({ name }) => name);
  assert.deepEqual(tagNames, ['ingest', 'search', 'listings', 'images', 'operations']);
  assert.ok(components.securitySchemes['api_key']);
  for (const [path, operations] of Object.entries(paths)) {
    for (const operation of Object.values(operations)) {
      for (const tag of operation.tags) assert.ok(tagNames.includes(tag), path);
      const expected = path.startsWith('/api/') ? [{ api_key: [] }] : undefined;
      assert.deepEqual(operation.security, expected, path);
    }
  }
});

import { createReadStream } from 'node:fs';
import type { EndpointRecord } from '@oselya/inventory';
import { Type } from 'typebox';
import { defineTool, ToolError } from './tool.ts';

const MAX_ENDPOINTS = 10;

const ENDPOINT_PATTERN = /endpoint|ендпоінт|эндпоинт|сервіс|сервис|service|порт|port\b/iu;

const RESULTS_HEADING = {
  uk: 'Ось що є в обліку:',
  ru: 'Вот что есть в учёте:',
  en: 'This is what the inventory has:',
};

/** Tool that looks up endpoints in the installation's inventory. Specification 002. */
export const lookupEndpoint = defineTool({
  name: 'lookup_endpoint',
  description:
    "Looks up network endpoints in this installation's inventory: where a service runs, who owns it, how exposed it is, when it was last reviewed.",
  input: Type.Object(
    {
      words: Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'words that all stand somewhere in the record, such as collector public',
      }),
    },
    { additionalProperties: false },
  ),
  // The operator, not a third party, wrote the inventory.
  hasThirdPartyText: false,
  title: ({ words }) => `Looking up endpoints · ${words}`,
  async run({ words }, { inventoryFile, signal }) {
    if (inventoryFile === undefined) {
      throw new ToolError('there is no inventory here: INVENTORY_FILE names none');
    }
    // A static import of the package would noticeably delay startup.
    const { InvalidInventoryError, maskRecord, readRecords } = await import('@oselya/inventory');
    const searchedWords = words.toLowerCase().split(/\s+/u).filter(Boolean);
    const endpoints: EndpointRecord[] = [];
    let matchCount = 0;
    try {
      const source = createReadStream(inventoryFile, { signal });
      for await (const { value } of readRecords(source, { file: inventoryFile })) {
        // A search in masked records cannot reveal secrets in URLs.
        const maskedRecord = maskRecord(value);
        const text = JSON.stringify(Object.values(maskedRecord)).toLowerCase();
        if (!searchedWords.every((word) => text.includes(word))) continue;
        matchCount += 1;
        if (endpoints.length < MAX_ENDPOINTS) endpoints.push(maskedRecord);
      }
    } catch (error) {
      if (error instanceof InvalidInventoryError) {
        throw new ToolError(`the inventory is not valid: ${error.message}`);
      }
      const message = 'the inventory cannot be read: INVENTORY_FILE must name it';
      throw new ToolError(message, { cause: error });
    }
    const summary = matchCount === 0 ? 'nothing found' : endpoints.map(({ id }) => id).join(', ');
    return { data: { total: matchCount, endpoints }, summary };
  },
  mock: {
    call({ text, criteria }) {
      if (!ENDPOINT_PATTERN.test(text) || criteria.mentionsProperty || criteria.city !== null)
        return undefined;
      const words =
        text.match(/[A-Za-z][\w-]{2,}/g)?.filter((word) => !ENDPOINT_PATTERN.test(word)) ?? [];
      return { words: words.join(' ').slice(0, 200) || 'http' };
    },
    answer(data, language) {
      const records = (data['endpoints'] ?? []) as { id: string; exposure: string; url?: string }[];
      const lines = records.map(({ id, exposure, url }) => `- ${id} (${exposure}) ${url ?? ''}`);
      return [RESULTS_HEADING[language], ...lines].join('\n');
    },
  },
});

import { createReadStream } from 'node:fs';
import type { EndpointRecord } from '@oselya/inventory';
import { Type } from 'typebox';
import { defineTool, ToolError } from './tool.ts';

/** How many endpoints the model is given. */
const MOST_ENDPOINTS = 10;

/** Looks endpoints up in the inventory of the installation. Contract 3, Profiles; Specification 002. */
export const lookupEndpoint = (inventoryFile: string | undefined) =>
  defineTool({
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
    // Who runs the installation wrote it.
    isData: false,
    changesMemory: false,
    title: ({ words }) => `Looking up endpoints · ${words}`,
    async run({ words }, { signal }) {
      if (inventoryFile === undefined) {
        throw new ToolError('there is no inventory here: INVENTORY_FILE names none');
      }
      // Loaded by the first who looks something up: it is a tenth of what a start loads, and few do.
      const { InvalidInventoryError, maskRecord, readRecords } = await import('@oselya/inventory');
      const wanted = words.toLowerCase().split(/\s+/u).filter(Boolean);
      const found: EndpointRecord[] = [];
      let total = 0;
      try {
        const source = createReadStream(inventoryFile, { signal });
        for await (const { value } of readRecords(source, { file: inventoryFile })) {
          // What the model is told, others may read.
          const shown = maskRecord(value);
          const text = JSON.stringify(Object.values(shown)).toLowerCase();
          if (!wanted.every((word) => text.includes(word))) continue;
          total += 1;
          if (found.length < MOST_ENDPOINTS) found.push(shown);
        }
      } catch (error) {
        if (error instanceof InvalidInventoryError) {
          throw new ToolError(`the inventory is not valid: ${error.message}`);
        }
        throw new ToolError('the inventory cannot be read: INVENTORY_FILE must name it', {
          cause: error,
        });
      }
      return {
        data: { total, endpoints: found },
        summary: total === 0 ? 'nothing found' : found.map(({ id }) => id).join(', '),
      };
    },
  });

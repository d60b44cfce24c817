import type { ToolDefinition } from '@oselya/model';
import type { Collector } from '../collector/client.ts';
import type { Memory } from '../memory/service.ts';
import type { Profile } from '../profiles/profile.ts';
import { forgetFact } from './forget-fact.ts';
import { getListing } from './get-listing.ts';
import { lookupEndpoint } from './lookup-endpoint.ts';
import { rememberFact } from './remember-fact.ts';
import { searchListings } from './search-listings.ts';
import { similarListings } from './similar-listings.ts';
import type { Tool } from './tool.ts';

/** Every tool that there is. */
export type Tools = ReturnType<typeof createTools>;

/** Makes the tools, from what they work with. Contract 3, Profiles. */
export function createTools({
  collector,
  memory,
  inventoryFile,
}: {
  collector: Collector;
  memory: Memory;
  inventoryFile: string | undefined;
}) {
  const all: readonly Tool[] = [
    searchListings(collector),
    similarListings(collector),
    getListing(collector),
    rememberFact(memory),
    forgetFact(memory),
    lookupEndpoint(inventoryFile),
  ];
  return {
    /** Those of a profile. */
    of: ({ tools }: Pick<Profile, 'tools'>): Tool[] =>
      all.filter(({ name }) => tools.includes(name)),
  };
}

/** What the model is told of tools. */
export function toDefinitions(tools: readonly Tool[]): ToolDefinition[] {
  return tools.map(({ name, description, input }) => ({ name, description, input }));
}

import type { ToolDefinition } from '@oselya/model';
import type { Collector } from '../collector/client.ts';
import type { Files } from '../files/files.ts';
import type { Memory } from '../memory/memory.ts';
import type { Profile } from '../profiles/profile-file.ts';
import { forgetFact } from './forget-fact.ts';
import { getListing } from './get-listing.ts';
import { lookupEndpoint } from './lookup-endpoint.ts';
import { readFile } from './read-file.ts';
import { rememberFact } from './remember-fact.ts';
import { searchListings } from './search-listings.ts';
import { similarListings } from './similar-listings.ts';
import type { DefinedTool } from './tool.ts';

/** Every tool that there is. */
export type Tools = ReturnType<typeof createTools>;

/** Makes the tools, from what they work with. Contract 3, Profiles. */
export function createTools({
  collector,
  memory,
  files,
  inventoryFile,
}: {
  collector: Collector;
  memory: Memory;
  files: Files;
  inventoryFile: string | undefined;
}) {
  const all: readonly DefinedTool[] = [
    searchListings(collector),
    similarListings(collector),
    getListing(collector),
    rememberFact(memory),
    forgetFact(memory),
    lookupEndpoint(inventoryFile),
    readFile(files),
  ];
  return {
    /** Those of a profile, and that for files where the session has some. */
    of({ tools }: Pick<Profile, 'tools'>, { hasFiles }: { hasFiles: boolean }): DefinedTool[] {
      const own = new Set<string>(hasFiles ? [...tools, 'read_file'] : tools);
      return all.filter(({ name }) => own.has(name));
    },
  };
}

/** What the model is told of tools. */
export function toDefinitions(tools: readonly DefinedTool[]): ToolDefinition[] {
  return tools.map(({ definition }) => definition);
}

/** What a command has of the world around it. */
export type Context = {
  env: NodeJS.ProcessEnv;
  print: (line: string) => void;
  /** Sets the exit status of a command that did its work but has bad news. */
  exitWith: (status: number) => void;
};

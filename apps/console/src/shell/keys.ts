import { useEffect, useRef } from 'react';

/** Actions by key, such as `j`, by a letter after `g`, such as `g s`, or by Ctrl or ⌘, such as `mod k`. */
export type KeyActions = Record<string, () => void>;

const layers: { current: KeyActions }[] = [];
let isAfterG = false;
let areLettersOn = true;

/** Switches single letters on or off, which may disturb people who dictate (WCAG 2.1.4). */
export function switchLetters(areOn: boolean): void {
  areLettersOn = areOn;
}

/** Runs actions when their keys are pressed outside of text fields. The page that was opened last has precedence. */
export function useKeys(actions: KeyActions): void {
  const layer = useRef(actions);
  useEffect(() => {
    layer.current = actions;
  });
  useEffect(() => {
    layers.unshift(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

document.addEventListener('keydown', (event) => {
  const key = nameKeys(event);
  if (key === undefined) return;
  const action = layers.find(({ current }) => key in current)?.current[key];
  if (action === undefined) return;
  event.preventDefault();
  action();
});

/** Returns the name of an action, or undefined for keys that belong to a text field or an overlay. */
function nameKeys(event: KeyboardEvent): string | undefined {
  const key = readKey(event);
  if (event.ctrlKey !== event.metaKey && !event.altKey) return `mod ${key}`;
  if (!areLettersOn || event.defaultPrevented || isTyping(event)) return undefined;
  const wasAfterG = isAfterG;
  isAfterG = key === 'g' && !wasAfterG;
  return wasAfterG ? `g ${key}` : key;
}

/** Returns the Latin letter of a key also on Cyrillic layouts. */
export function readKey({ key, code }: Pick<KeyboardEvent, 'key' | 'code'>): string {
  const letter = /^Key([A-Z])$/.exec(code)?.[1];
  return letter !== undefined && !/^[a-z]$/i.test(key) ? letter.toLowerCase() : key.toLowerCase();
}

function isTyping({ target, altKey, ctrlKey, metaKey }: KeyboardEvent): boolean {
  if (altKey || ctrlKey || metaKey || !(target instanceof HTMLElement)) return true;
  if (document.querySelector('[role=dialog], dialog[open]') !== null) return true;
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName);
}

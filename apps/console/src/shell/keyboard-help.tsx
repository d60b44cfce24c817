import '@mantine/core/styles/Kbd.layer.css';
import { Kbd, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMessages } from '../i18n/language.tsx';
import { Modal } from './modal.ts';
import { settingsQuery } from '../start/settings.ts';
import type { Page } from './pages.ts';
import classes from './shell.module.css';

/** Keys of the search and its list, by the name of their texts. */
const KEYS = {
  help: '?',
  search: '/',
  next: 'j',
  previous: 'k',
  open: 'Enter',
  status: 's',
  hide: 'h',
  compare: 'c',
} as const;

/** List of the keyboard shortcuts. */
export default function KeyboardHelp({
  pages,
  onClose,
}: {
  pages: readonly Page[];
  onClose: () => void;
}) {
  const messages = useMessages();
  const { keys } = messages;
  const { data: settings } = useQuery(settingsQuery);
  const names = Object.keys(KEYS) as (keyof typeof KEYS)[];
  return (
    <Modal
      opened
      onClose={onClose}
      title={keys.title}
      closeButtonProps={{ 'aria-label': messages.close }}
    >
      {settings?.single_letter_keys === false && <Text mb="md">{keys.areSwitchedOff}</Text>}
      <dl className={classes.shortcuts}>
        <dt>{keys.palette}</dt>
        <dd>
          <Kbd>Ctrl</Kbd> <Kbd>K</Kbd>
        </dd>
        {names.map((name) => [
          <dt key={name}>{keys[name]}</dt>,
          <dd key={`${name} key`}>
            <Kbd>{KEYS[name]}</Kbd>
          </dd>,
        ])}
        {pages.map(({ path, key, label }) => [
          <dt key={path}>{keys.page(label(messages))}</dt>,
          <dd key={`${path} key`}>
            <Kbd>g</Kbd> {keys.afterwards} <Kbd>{key}</Kbd>
          </dd>,
        ])}
      </dl>
    </Modal>
  );
}

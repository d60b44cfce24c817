import { createTheme, type MantineColorsTuple } from '@mantine/core';

/** Green of a garden; the seventh shade is that of the logo. */
const garden: MantineColorsTuple = [
  '#eef7f2',
  '#dcefe4',
  '#b6dec8',
  '#8dccaa',
  '#6bbd91',
  '#48a376',
  '#2f7d5b',
  '#266a4d',
  '#1d5740',
  '#134430',
];

/** Neutral shades with a trace of the green. */
const gray: MantineColorsTuple = [
  '#f7f8f7',
  '#eff2f0',
  '#e5e9e7',
  '#d7dcd9',
  '#bdc6c1',
  '#939e98',
  '#5f6b65',
  '#47524c',
  '#2f3833',
  '#1a211d',
];

/** The same in the dark, from the text to the deepest background. */
const dark: MantineColorsTuple = [
  '#dbe2de',
  '#bcc5c0',
  '#9ba6a0',
  '#65706a',
  '#3a443e',
  '#2c3430',
  '#222925',
  '#181d1a',
  '#131715',
  '#0e110f',
];

/** Colours, type scale and defaults of the console. */
export const theme = createTheme({
  colors: { garden, gray, dark },
  black: '#1a211d',
  primaryColor: 'garden',
  primaryShade: 6,
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  fontFamily: '"Inter Variable", system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", Menlo, Consolas, monospace',
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.9375rem', lg: '1.0625rem', xl: '1.25rem' },
  headings: {
    fontWeight: '650',
    sizes: {
      h1: { fontSize: '1.5rem', lineHeight: '1.25' },
      h2: { fontSize: '1.125rem', lineHeight: '1.35' },
      h3: { fontSize: '1rem', lineHeight: '1.4' },
    },
  },
});

// Styles of the library's components on the personal pages.
import '@mantine/core/styles/Group.layer.css';
import '@mantine/core/styles/ActionIcon.layer.css';
import '@mantine/core/styles/Input.layer.css';

"""What several pages share: the lab's services, formats, badges, answers. Streamlit is allowed here, torch is not."""
